"""The graph of a program, its operations and how they are simplified."""
