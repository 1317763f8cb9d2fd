"""Kernels for NVIDIA GPUs, by NVRTC."""
