"""Mathematics that knows nothing of mechanics: elementary functions, Newton's method, small linear systems."""
