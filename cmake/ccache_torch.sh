#!/bin/sh
# ccache for sources that use torch's precompiled header: `ccache_torch.sh CCACHE COMPILER ARGUMENT...`.
#
# ccache hashes the precompiled header for each source that uses it. Torch's header has some 700 MB, which takes
# a second. With CCACHE_PCH_EXTSUM, ccache reads HEADER.gch.sum instead, so this script writes that checksum
# once, after the header was compiled.
export CCACHE_PCH_EXTSUM=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
"$@" || exit
for argument in "$@"; do
  case "$argument" in
    *.gch) sha256sum <"$argument" >"$argument.sum" ;;
  esac
done
