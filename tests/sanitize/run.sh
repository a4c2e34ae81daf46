#!/bin/sh
# Builds the kernel and its driver with the sanitizers of the compiler and runs them: memory and undefined behaviour
# first, then data races. Any report ends it with an error. Usage: tests/sanitize/run.sh [cases]
set -eu
cd "$(dirname "$0")/../.."
kernel=src/neuralrde/signatures/kernel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CXX=${CXX:-g++}
cases=${1:-200}

build() {  # name, flags of the sanitizer
    mkdir "$work/$1"
    flags="-std=c++17 -O1 -g1 -fno-omit-frame-pointer -fno-math-errno -fno-trapping-math -Wno-psabi -I$kernel $2"
    $CXX $flags -c "$kernel/level_baseline.cpp" -o "$work/$1/level_baseline.o"
    case $(uname -m) in x86_64 | amd64)
        $CXX $flags -march=x86-64-v3 -c "$kernel/level_x86_64_v3.cpp" -o "$work/$1/level_x86_64_v3.o"
        $CXX $flags -march=x86-64-v4 -mprefer-vector-width=512 -c "$kernel/level_x86_64_v4.cpp" -o "$work/$1/level_x86_64_v4.o"
    esac
    $CXX $flags tests/sanitize/driver.cpp "$work/$1"/level_*.o -pthread -o "$work/$1/driver"
}

# The two builds side by side, where there is more than one core.
build memory "-fsanitize=address,undefined -fno-sanitize-recover=all" &
build threads "-fsanitize=thread"
wait $!
echo "address and undefined behaviour:"
ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 "$work/memory/driver" "$cases"
echo "threads:"
# Address randomisation of newer kernels is more than ThreadSanitizer's memory map allows.
without=$(command -v setarch >/dev/null && setarch -R true 2>/dev/null && echo "setarch -R" || true)
TSAN_OPTIONS=halt_on_error=1:exitcode=66 $without "$work/threads/driver" $((cases / 4))
