#!/usr/bin/env bash
# Makes an environment below .doors for each client that cannot be installed beside the service; there it stays.
set -euo pipefail
cd "$(dirname "$0")/.."

environment() {
  local name=$1
  shift
  [[ $(cat ".doors/$name/.installed" 2>/dev/null) == "httpx2 $*" ]] && return
  "$PYTHON" -m venv --clear ".doors/$name"
  ".doors/$name/bin/python" -m pip install --quiet --disable-pip-version-check httpx2 "$@"
  echo "httpx2 $*" >".doors/$name/.installed"
}

environment langchain "langchain-core>=1,<2"
environment llama-index "llama-index-core>=0.14,<0.15"
environment openai-1 "openai==1.*"
environment openai-2 "openai==2.*"
