"""From LLVM IR to machine code of this computer, in two steps between which it can be kept."""

from __future__ import annotations

from functools import cache
from typing import Any

from holonax.engines.llvm.library import fill_in


def processor() -> tuple[str, ...]:
    """All that machine code depends on, besides LLVM IR: the processor, its features, and LLVM itself."""
    import llvmlite
    import llvmlite.binding as llvm

    version = ".".join(map(str, llvm.llvm_version_info))
    features = llvm.get_host_cpu_features().flatten()
    triple = llvm.get_process_triple()
    return f"llvmlite {llvmlite.__version__}", f"LLVM {version}", triple, llvm.get_host_cpu_name(), features


@cache
def can_permute() -> bool:
    """Whether a vector of eight numbers can be put in an order that is known only at run time (AVX-512)."""
    import llvmlite.binding as llvm

    return bool(llvm.get_host_cpu_features().get("avx512f", False))


def is_x86() -> bool:
    """Whether this computer has the instructions of x86."""
    import llvmlite.binding as llvm

    return bool(llvm.get_process_triple().startswith("x86_64"))


def object_code(text: str) -> bytes:
    """A module as an object file."""
    import llvmlite.binding as llvm

    return bytes(_target_machine().emit_object(llvm.parse_assembly(text)))


def load(code: bytes, name: str) -> tuple[int, Any]:
    """The address of a function of an object file, and what must be kept alive with it."""
    import llvmlite.binding as llvm

    compiler = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine(), use_lmm=True)
    compiler.add_object_file(llvm.ObjectFileRef.from_data(code))
    compiler.finalize_object()  # code and constants close together, hence the memory manager
    fill_in(compiler)
    return compiler.get_function_address(name), compiler


def _target_machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",  # constants next to the code, reached without loading their address
    )
