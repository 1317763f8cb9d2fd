"""Machine code for this CPU, by LLVM."""
