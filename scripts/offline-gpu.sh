#!/usr/bin/env bash
# Carries Verlet to a GPU machine that reaches no network: it needs only python3 with torch, g++, cmake and (for the kernels)
# nvcc there. Packs Node, the compiled JavaScript, the npm packages it uses and the C++ sources into .carry/verlet
# (at most 64 MiB); a runner inside unpacks them, builds the addon against that machine's torch and runs a command.
#
#   scripts/offline-gpu.sh pack [extra path ...]   here; extra paths (relative to the repository) travel too
#   .carry/verlet/run <command ...>                there, from the repository or from anywhere the folder was copied to
#   .carry/verlet/run npx verlet-torch             for example
#   .carry/verlet/run node packages/torch/bench/run.mjs
#   .carry/verlet/run vitest run packages/torch
#
# On the other machine: VERLET_WORK (default /tmp/verlet) is where it unpacks; the addon is built once per set of sources.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "${1:-}" = pack ] || { sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2; }
shift

limit=$((64 * 1024 * 1024))
out=.carry/verlet
rm -rf "$out"
mkdir -p "$out"
npx --no-install tsc -b || echo "type errors: packing what was emitted" >&2

# Everything installed here but the compiler, the linter and Pyodide: tests run there too, type checks do not.
mapfile -t packages < <(npm ls --all --parseable 2>/dev/null | sed "s|^$PWD/||" | grep '^node_modules/' |
  grep -v -E '^node_modules/(@verlet/|verlet$|pyodide$|@biomejs/|typescript$|@typescript/|@types/)' | sort -u)
tar --create --file=- \
  --exclude='*.map' --exclude='*.d.ts' --exclude='*.d.mts' --exclude='*.d.cts' --exclude='*.md' --exclude='*.flow' \
  --exclude='*darwin*' --exclude='*win32*' --exclude='*musl*' --exclude='*android*' --exclude='*arm64*' --exclude='*arm-*' \
  --exclude='*freebsd*' --exclude='packages/*/build' --exclude='.tsbuildinfo' --exclude='*.tsbuildinfo' \
  "${packages[@]}" package.json vitest.config.ts tsconfig.json tsconfig.base.json bench packages scripts "$@" | xz -T0 -6 >"$out/verlet.tar.xz"

node=$(node -p process.execPath)
strip -o "$out/node" "$node" 2>/dev/null || cp "$node" "$out/node"
xz -T0 -6 "$out/node"

cat >"$out/run" <<'RUNNER'
#!/usr/bin/env bash
# Unpacks what stands beside this file, builds the addon against this machine's torch, runs the command in that folder.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${VERLET_WORK:-/tmp/verlet}
stamp=$(cat "$here/verlet.tar.xz" "$here/node.xz" | sha256sum | cut -c1-16)
if [ "$(cat "$work/.stamp" 2>/dev/null)" != "$stamp" ]; then
  mkdir -p "$work/bin"
  xz -dc "$here/node.xz" >"$work/bin/node.part"
  chmod +x "$work/bin/node.part"
  mv "$work/bin/node.part" "$work/bin/node"
  rm -rf "$work/node_modules" "$work"/packages/*/{src,dist,native,scripts,test,bench}
  xz -dc "$here/verlet.tar.xz" | tar -x -C "$work"
  mkdir -p "$work/node_modules/@verlet" "$work/node_modules/.bin"
  ln -sfn ../../packages/torch "$work/node_modules/@verlet/torch"
  ln -sfn ../packages/verlet "$work/node_modules/verlet"
  ln -sfn ../../packages/torch/scripts/doctor.mjs "$work/node_modules/.bin/verlet-torch"
  ln -sfn ../vitest/vitest.mjs "$work/node_modules/.bin/vitest"
  ln -sfn ../../packages/verlet/dist/cli/main.js "$work/node_modules/.bin/verlet"
  chmod +x "$work/packages/verlet/dist/cli/main.js" 2>/dev/null || true
  echo "$stamp" >"$work/.stamp"
fi
export PATH="$work/bin:$work/node_modules/.bin:$PATH"
cd "$work"
node packages/torch/scripts/install.mjs
[ "${1:-}" != npx ] || shift
[ $# -eq 0 ] || exec "$@"
RUNNER
chmod +x "$out/run"

size=$(du -sb "$out" | cut -f1)
echo "$out: $((size / 1024 / 1024)) MiB"
du -h "$out"/*
[ "$size" -le "$limit" ] || { echo "over the limit of $((limit / 1024 / 1024)) MiB: leave extra paths out" >&2; exit 1; }
