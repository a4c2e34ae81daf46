"""Builds the compiled log-signature kernel; everything else about the project stands in pyproject.toml.

The extension is optional: where there is no compiler, the installation goes on without it and the JAX form of the
log-signature serves instead. It holds no Python module; `neuralrde.signatures._library` loads it with ctypes. So its
file is not named after a version of Python, and one wheel serves all of them on a platform.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

import jaxlib
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

folder = Path("src/neuralrde/signatures/kernel")
# The same kernels are compiled for several kinds of processor, and the library picks one when it is loaded.
windows = sys.platform == "win32"
flags = {"level_baseline": []}
if platform.machine() in ("x86_64", "AMD64"):
    flags["level_x86_64_v3"] = ["-mcpu=x86_64_v3" if windows else "-march=x86-64-v3"]
    flags["level_x86_64_v4"] = ["-mcpu=x86_64_v4" if windows else "-march=x86-64-v4", "-mprefer-vector-width=512"]
# XLA's foreign function interface comes with jaxlib (`jax.ffi.include_dir()`, without importing jax).
headers = os.path.join(os.path.dirname(jaxlib.__file__), "include")
# -fno-math-errno and -fno-trapping-math change no result; they let loops become SIMD instructions.
compiling = ["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi", "-g0"]


def _call(command):
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CompileError(str(error)) from error  # which an optional extension may have


class build_library(build_ext):
    """An extension is a Python module to setuptools, whose files all have the same flags."""

    def get_ext_filename(self, fullname):
        # Without the tag of a Python version; macOS loads .so too.
        return os.path.join(*fullname.split(".")) + (".dll" if windows else ".so")

    def build_extension(self, ext):
        if not windows:
            return super().build_extension(ext)
        # Microsoft's compiler knows no vector types, and GCC misaligns wide vectors there: clang, as `ziglang` has it.
        clang = [sys.executable, "-m", "ziglang", "c++", "-target", "x86_64-windows-gnu"]
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        objects = []
        for source in ext.sources:
            objects.append(str(target.with_name(f"{Path(source).stem}.o")))
            special = flags.get(Path(source).stem, [])
            _call([*clang, *compiling, *special, "-I", headers, "-c", source, "-o", objects[-1]])
        _call([*clang, "-shared", *objects, "-o", str(target)])
        for one in objects:
            os.remove(one)

    def build_extensions(self):
        if windows:
            return super().build_extensions()
        compile_file = self.compiler._compile

        def with_flags(object_, source, ending, arguments, extra, defines):
            extra = [*extra, *flags.get(Path(source).stem, [])]
            return compile_file(object_, source, ending, arguments, extra, defines)

        self.compiler._compile = with_flags
        super().build_extensions()


class wheel_for_all_versions(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    cmdclass={"build_ext": build_library, "bdist_wheel": wheel_for_all_versions},
    ext_modules=[
        Extension(
            "neuralrde.signatures._kernel_library",
            sources=[str(folder / f"{name}.cpp") for name in ("library", *flags)],
            depends=[str(path) for path in sorted(folder.glob("*.h"))],
            include_dirs=[headers],
            language="c++",
            extra_compile_args=compiling,
            extra_link_args=["-pthread"],
            optional=True,
        )
    ],
)
