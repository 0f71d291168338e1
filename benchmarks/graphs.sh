#!/usr/bin/env bash
# Times every graph of tests/graphs that names sizes on the GPU, each beside a copy kernel of the same bytes.
#
#   benchmarks/graphs.sh [DIR] [PATTERN]     writes DIR/NAME.json (default: out/graphs) and prints a table, of graphs
#                                            whose name matches the pattern
#
# The tool is build/tools/seam, or what SEAM names. Graphs with library calls, for which there is no GPU code yet, say so.
set -uo pipefail
cd "$(dirname "$0")/.."
seam=${SEAM:-build/tools/seam}
dir=${1:-out/graphs}
pattern=${2:-*}
mkdir -p "$dir"

for file in tests/graphs/*.seam tests/graphs/inductor/*.seam; do
  name=$(basename "$file" .seam)
  # shellcheck disable=SC2053  # A pattern.
  [[ $name == $pattern ]] || continue
  sizes=$(sed -n 's/^# sizes: *//p' "$file" | tr ' ' ',')
  [[ -n $sizes ]] || continue
  "$seam" bench "$file" --set "$sizes" --repetitions 3 --json "$dir/$name.json" >"$dir/$name.txt" 2>&1
  printf '%-44s %-36s %s\n' "$name" "$sizes" "$(tail -n 1 "$dir/$name.txt")"
done
