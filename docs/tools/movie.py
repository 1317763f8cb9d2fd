"""Draws docs/figures/torus.gif, the moving picture of the README: particles on a torus, shaken by noise."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter

import holonax as hx

TARGET = Path(__file__).parent.parent / "figures" / "torus.gif"
FRAMES, TRAIL, PATHS = 48, 12, 48


def main() -> None:
    """Simulate, draw, write."""
    torus = hx.systems.torus(sigma=0.8)
    run = hx.simulate(torus.system, hx.Kicked(), torus.start, t1=FRAMES / 8, h=2**-6, paths=PATHS, seed=1, save_every=4)
    figure = plt.figure(figsize=(4.2, 3.0), dpi=80)
    axis = figure.add_axes((-0.15, -0.25, 1.3, 1.5), projection="3d")
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 40), np.linspace(0, 2 * np.pi, 20))
    tube = ((1 + 0.5 * np.cos(v)) * np.cos(u), (1 + 0.5 * np.cos(v)) * np.sin(u), 0.5 * np.sin(v))
    axis.plot_wireframe(*tube, linewidth=0.3, color="0.8")
    axis.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), zlim=(-0.9, 0.9))
    axis.set_box_aspect((2.6, 2.6, 1.8))
    axis.set_axis_off()
    axis.view_init(elev=35)
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, PATHS))
    trails = [axis.plot([], [], [], linewidth=0.8, color=colour)[0] for colour in colours]
    heads = [axis.plot([], [], [], "o", markersize=2.5, color=colour)[0] for colour in colours]

    def draw(frame: int) -> list:
        end = 2 * frame + 1
        for path, trail, head in zip(run.q, trails, heads, strict=True):
            trail.set_data_3d(*path[max(0, end - TRAIL) : end].T)
            head.set_data_3d(*path[end - 1 : end].T)
        return [*trails, *heads]

    FuncAnimation(figure, draw, frames=FRAMES).save(TARGET, writer=PillowWriter(fps=15))


if __name__ == "__main__":
    main()
