"""Pictures of ensembles: a page with a player, films, figures.  Plain arrays come in; nothing here knows of runs."""
