#!/bin/sh
# Builds the adapters of compiled languages into a folder: sh examples/adapters/build.sh FOLDER
# A language whose tools are not here is left out, which is said.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
built=$(cd "$1" && pwd)

if command -v go >/dev/null; then
    (cd "$here/go" && go build -o "$built/go-adapter" .) || echo "the Go adapter cannot be built" >&2
else
    echo "there is no go: its adapter is left out" >&2
fi

# The Java driver has an interface that blocks and a reactive one, each a program with libraries of its own.
# Maven writes escape sequences into every pipe, so it is heard only where it fails.
java() {
    (
        cd "$here/java"
        said=$(mvn -q -B ${2:+-P "$2"} compile dependency:copy-dependencies \
            -DbuildDirectory="$built/maven/$1" -DoutputDirectory="$built/$1/lib") || { echo "$said" >&2; exit 1; }
        cp "$built/maven/$1"/classes/*.class "$built/$1"
    ) || { echo "the adapter $1 cannot be built" >&2; rm -rf "${built:?}/$1"; }
}
if command -v mvn >/dev/null && command -v javac >/dev/null; then
    java java
    java java-reactive reactive
else
    echo "there is no Maven: the Java adapters are left out" >&2
fi

if command -v cargo >/dev/null; then
    (
        cargo build -q --locked --manifest-path "$here/rust/Cargo.toml" --target-dir "$built/cargo" &&
            cp "$built/cargo/debug/rust-adapter" "$built/rust-adapter"
    ) || echo "the Rust adapter cannot be built" >&2
else
    echo "there is no cargo: the Rust adapter is left out" >&2
fi

if command -v cc >/dev/null && command -v make >/dev/null && pkg-config --exists libmongoc-1.0 2>/dev/null; then
    make -s -C "$here/c" OUT="$built/c-adapter" || echo "the C adapter cannot be built" >&2
else
    echo "there is no cc, make or libmongoc: the C adapter is left out" >&2
fi
