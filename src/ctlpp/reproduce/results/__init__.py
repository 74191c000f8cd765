"""What has come out: statistics, verdicts, tables, figures and the page, from the files of the runs alone."""
