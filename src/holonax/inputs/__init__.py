"""What users bring: arguments and functions, checked before anything is traced, with words that help."""
