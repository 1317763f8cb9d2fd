"""How a page looks, and the few lines of JavaScript that sort its tables."""

STYLE = """
:root { --paper: #fbfaf8; --card: #ffffff; --ink: #1c2733; --soft: #5d6976; --line: #e3e1dc; --accent: #0f7290;
  --warm: #9a4a07; --warm-paper: #fdf3e7; --stripe: #f6f5f2; }
@media (prefers-color-scheme: dark) { :root { --paper: #12161b; --card: #1a2027; --ink: #e4e8ec; --soft: #9aa5b1;
  --line: #2c353f; --accent: #56bfdc; --warm: #f2b275; --warm-paper: #2b2117; --stripe: #1f262e; } }
@media (prefers-color-scheme: dark) { figure svg { filter: brightness(1.25); } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI",
  Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 78rem; margin: 0 auto; padding: 3rem 1.5rem 4rem; }
header { max-width: 60rem; margin-bottom: 2rem; }
.kicker { margin: 0 0 .6rem; color: var(--accent); font-weight: 600; letter-spacing: .01em; }
h1 { margin: 0; font: 600 clamp(1.4rem, 1.1rem + 1.2vw, 2rem)/1.25 Charter, "Iowan Old Style", Georgia, serif;
  letter-spacing: -.01em; text-wrap: pretty; }
h2 { font-size: 1.05rem; margin: 0 0 .7rem; }
.lead { list-style: none; margin: 1.2rem 0 0; padding: 0; color: var(--soft); font-size: 1.05rem; }
.lead li + li { margin-top: .3rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 1px; margin: 0 0 2rem;
  background: var(--line); border: 1px solid var(--line); border-radius: .7rem; overflow: hidden; }
.facts div { background: var(--card); padding: .8rem 1rem; }
.facts dt { color: var(--soft); font-size: .8rem; line-height: 1.3; }
.facts dd { margin: .1rem 0 0; font-size: 1.25rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.notes { background: var(--warm-paper); border-left: 3px solid var(--warm); border-radius: .4rem;
  padding: 1rem 1.2rem; margin: 0 0 2rem; font-size: .93rem; }
.notes h2 { color: var(--warm); } .notes ul { margin: 0; padding-left: 1.1rem; }
.viewer { display: block; width: 100%; height: min(78vh, 46rem); border: 1px solid var(--line); border-radius: .7rem;
  background: var(--card); margin: 0 0 1.5rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); gap: 1.25rem;
  grid-auto-flow: dense; margin-bottom: 2rem; }
figure { margin: 0; padding: 1.1rem 1.1rem 1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .7rem; display: flex; flex-direction: column; }
figure.wide { grid-column: 1 / -1; }
figure svg { width: 100%; height: auto; max-height: 27rem; color: var(--ink); }
figcaption { margin-top: auto; padding-top: .8rem; font-size: .9rem; color: var(--soft); }
figcaption b { color: var(--ink); font-weight: 600; }
.table, .repeat { margin: 0 0 1.6rem; padding: 1.1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .7rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .8rem; text-align: left; white-space: nowrap; }
thead th { border-bottom: 1px solid var(--line); padding: 0; }
th button { all: unset; cursor: pointer; padding: .35rem .8rem; color: var(--soft); font-weight: 600; width: 100%;
  box-sizing: border-box; }
th button:hover, th button:focus-visible { color: var(--accent); }
th button:focus-visible { outline: 2px solid var(--accent); outline-offset: -2px; border-radius: .3rem; }
th button::after { content: " \\2195"; opacity: .35; } th[aria-sort=ascending] button::after { content: " \\2191";
  opacity: 1; } th[aria-sort=descending] button::after { content: " \\2193"; opacity: 1; }
tbody tr:nth-child(even) { background: var(--stripe); }
td.number { text-align: left; }
.plain td:first-child { color: var(--soft); width: 12rem; } .plain td { white-space: normal; vertical-align: top; }
summary { cursor: pointer; font-weight: 600; } details[open] summary { margin-bottom: .8rem; }
pre { margin: 0 0 1rem; padding: .9rem 1rem; background: var(--stripe); border-radius: .4rem; overflow-x: auto;
  font: .86rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.versions { margin: 1rem 0 0; color: var(--soft); font-size: .85rem; }
@media print { body { background: none; } main { max-width: none; padding: 0; } .viewer { display: none; }
  figure, .table, .repeat { break-inside: avoid; } }
"""

SCRIPT = """
for (const head of document.querySelectorAll('table.sorts th')) head.querySelector('button').onclick = () => {
  const table = head.closest('table'), body = table.tBodies[0], column = [...head.parentNode.children].indexOf(head);
  const down = head.getAttribute('aria-sort') === 'ascending';
  const key = row => { const cell = row.cells[column], value = parseFloat(cell.dataset.value);
    return cell.dataset.value === undefined ? cell.textContent : Number.isNaN(value) ? Infinity : value; };
  const rows = [...body.rows].sort((one, other) => { const a = key(one), b = key(other);
    const order = typeof a === 'number' && typeof b === 'number' ? a - b || 0 : String(a).localeCompare(String(b));
    return down ? -order : order; });
  for (const other of table.querySelectorAll('th')) other.setAttribute('aria-sort', 'none');
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  body.append(...rows);
};
"""
