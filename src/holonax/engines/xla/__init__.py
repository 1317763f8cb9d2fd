"""Programs of lanes for any JAX device."""
