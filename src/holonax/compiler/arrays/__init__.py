"""Programs of loops over arrays, for systems so large that a program of single numbers would be too long."""
