"""Plans: lists of runs, cut into pieces and carried out by the same code, whoever made the list."""
