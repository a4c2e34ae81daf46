#!/bin/sh
# Builds the kernel for other platforms with the compiler that `pip install ziglang` brings, and runs its driver there:
# ARM under qemu-user, Windows under Wine. For macOS it is only built. Usage: tests/sanitize/platforms.sh [cases]
# PYTHON names the Python with ziglang; needs qemu-aarch64 and wine.
set -eu
cd "$(dirname "$0")/../.."
kernel=src/neuralrde/signatures/kernel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cases=${1:-100}

build() {  # platform, levels of the kernel
    target=$1 && shift
    mkdir "$work/$target"
    zig="${PYTHON:-python3} -m ziglang c++ -target $target"
    for level in "$@"; do
        case $level in level_x86_64_*) cpu="-mcpu=${level#level_}" ;; *) cpu= ;; esac
        $zig -std=c++17 -O2 -fno-math-errno -fno-trapping-math -Wno-psabi -g0 $cpu -c "$kernel/$level.cpp" \
            -o "$work/$target/$level.o"
    done
    $zig -std=c++17 -O2 -Wno-psabi -g0 -I$kernel tests/sanitize/driver.cpp "$work/$target"/level_*.o -o "$work/$target/driver"
}

build aarch64-linux-musl level_baseline
echo "ARM, Linux:" && qemu-aarch64 "$work/aarch64-linux-musl/driver" "$cases"
build x86_64-windows-gnu level_baseline level_x86_64_v3 level_x86_64_v4
echo "Windows:" && WINEDEBUG=-all WINEPREFIX="$work/wine" wine "$work/x86_64-windows-gnu/driver" "$cases"
build aarch64-macos level_baseline
echo "macOS on ARM: built"
