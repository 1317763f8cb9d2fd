"""From LLVM IR to machine code of this computer."""

from __future__ import annotations

from typing import Any


def compile_module(text: str, name: str) -> tuple[int, Any]:
    """The address of a function of a module, and what must be kept alive with it."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    parsed = llvm.parse_assembly(text)
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",  # constants next to the code, reached without loading their address
    )
    compiler = llvm.create_mcjit_compiler(parsed, machine, use_lmm=True)  # code and constants close together
    compiler.finalize_object()
    return compiler.get_function_address(name), compiler
