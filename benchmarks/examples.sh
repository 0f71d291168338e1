#!/usr/bin/env bash
# Times every example at the size of a real model on the GPU, each beside a copy kernel of the same bytes.
#
#   benchmarks/examples.sh [DIR]        writes DIR/NAME.json (default: out/bench) and prints a table
#
# The tool is build/tools/seam, or what SEAM names.
set -uo pipefail
cd "$(dirname "$0")/.."
seam=${SEAM:-build/tools/seam}
dir=${1:-out/bench}
mkdir -p "$dir"

status=0
while read -r name sizes; do
  if "$seam" bench "examples/$name.seam" --set "$sizes" --json "$dir/$name.json" >"$dir/$name.txt" 2>&1; then
    printf '%-28s %-36s %s\n' "$name" "$sizes" "$(tail -n 1 "$dir/$name.txt")"
  else
    status=1
    printf '%-28s %-36s failed: %s\n' "$name" "$sizes" "$(tail -n 1 "$dir/$name.txt")"
  fi
done <<'TABLE'
layer_norm M=65536,N=4096
layer_norm_backward M=4096,N=5632
rms_norm M=65536,N=4096
softmax B=16,Q=4096,K=4096
batch_norm_train N=64,C=256,H=128,W=128
instance_norm N=64,C=64,H=256,W=256
group_norm_nhwc N=64,H=128,W=128,G=32,K=8
quantised_layer_norm M=65536,N=4096
residual_dropout_layer_norm M=8192,N=4096
rope B=4,S=2048,HQ=32,HK=32,D=64
swiglu M=8192,N=11008
adamw N=67108864
cross_entropy M=8192,V=50257
TABLE
exit $status
