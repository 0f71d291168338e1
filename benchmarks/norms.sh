#!/bin/bash
# Times every normalization kernel at every row length, then PyTorch's, where it is there, in the same run.
#
#   benchmarks/norms.sh OUT.json [SECONDS FOR PYTORCH]
#
# NORM_BENCH names the program where it is not in build/benchmarks. `benchmarks/norm_plot.py OUT.json FOLDER` draws the
# file, `benchmarks/norm_table.py OUT.json` makes the README's table of it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
columns=256,512,1000,1024,2048,4096,4099,5003,5120,5632,8192,10007,12288,16384,32768,65536,131072,262144
out=${1:?usage: benchmarks/norms.sh OUT.json [SECONDS FOR PYTORCH]}
"${NORM_BENCH:-build/benchmarks/norm_bench}" --json "$out" --dtypes bf16,f32 \
  --ops layer_norm,rms_norm,softmax,layer_norm_backward,rms_norm_backward,softmax_backward \
  --columns "$columns"
# Sums over rows in whatever order rows come.
"${NORM_BENCH:-build/benchmarks/norm_bench}" --json "$out.any" --any-order --dtypes bf16,f32 \
  --ops layer_norm_backward,rms_norm_backward \
  --columns "$columns"
python3 - "$out" "$out.any" <<'END'
import json
import sys
figures, more = (json.load(open(path, encoding='utf-8')) for path in sys.argv[1:])
figures['rows'] += more['rows']
json.dump(figures, open(sys.argv[1], 'w', encoding='utf-8'))
END
rm "$out.any"
if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  python3 benchmarks/peer_norms.py "$out" --seconds "${2:-600}"
fi
