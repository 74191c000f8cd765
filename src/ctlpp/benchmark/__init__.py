"""The benchmark: functions, sampling graphs, variants and splits."""
