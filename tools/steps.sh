# Shared by the scripts of this folder (sourced, not run): where the tree is, short lines on the
# terminal, noisy output in build/logs and shown only when a step fails.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
logs=build/logs
mkdir -p "$logs"

bold='' green='' red='' plain=''
if [ -t 1 ]; then
  bold=$'\e[1m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
fi

say() { printf '%s%s%s\n' "$bold" "$*" "$plain"; }

# Ends the script because this machine lacks something that we cannot supply.
environment_lacks() {
  printf '%s%s%s\n' "$red" "$*" "$plain" >&2
  exit 4
}

# quietly NAME COMMAND...: runs the command with its output in $logs/NAME.log. A terminal shows the
# line that it is at.
quietly() {
  local log=$logs/$1.log
  shift
  if [ -t 1 ]; then
    "$@" 2>&1 </dev/null | tee "$log" | show_last_line
  else
    "$@" >"$log" 2>&1 </dev/null
  fi
}

show_last_line() {
  local line
  while IFS= read -r line; do
    printf '\r\e[K%.78s' "$line"
  done
  printf '\r\e[K'
}

show_log() {
  printf 'The end of %s:\n' "$logs/$1.log"
  tail -n "${2:-40}" "$logs/$1.log" | sed 's/^/  | /'
}

# Without this ccache keeps nothing that was compiled with precompiled headers.
export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:+$CCACHE_SLOPPINESS,}pch_defines,time_macros"

# For `cmake -S . -B FOLDER "${cmake_options[@]}"`. Who changes files often may add -DSEAM_UNITY=OFF.
cmake_options=(
  -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DSEAM_UNITY=ON
  -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld
)
