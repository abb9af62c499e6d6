#!/usr/bin/env bash
# Checks formatting and design rules:
#
#   scripts/lint.sh [--fix] [--quick] [--without-torch]
#
#   clang-format 14, shellcheck, the tests of the design in tests/tidy, and clang-tidy 23, whose
#   warnings are errors
#
# --fix lets clang-format rewrite the files. --quick leaves out clang-tidy, --without-torch the files that
# include torch, which need its headers. clang-tidy checks only files that changed since they were last clean,
# or whose headers, settings or compile command did.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

fix=no
quick=no
with_torch=yes
while (($# > 0)); do
  case "$1" in
    --fix) fix=yes ;;
    --quick) quick=yes ;;
    --without-torch) with_torch=no ;;
    *) die "unknown option '$1'; see the head of scripts/lint.sh" ;;
  esac
  shift
done

cd "$ddprun_root"
databases=(build/dev/compile_commands.json)
if [[ $with_torch == yes ]]; then
  "$ddprun_root/scripts/setup.sh" --with-lint
  databases+=(build/release/compile_commands.json)
else
  "$ddprun_root/scripts/setup.sh" --with-lint --without-torch
fi

step "Checking the format (clang-format 14)"
mapfile -t sources < <(
  git ls-files --cached --others --exclude-standard -- '*.cpp' '*.hpp' |
    while IFS= read -r file; do if [[ -e "$file" ]]; then echo "$file"; fi; done
)
if [[ $fix == yes ]]; then
  clang-format-14 -i "${sources[@]}"
else
  clang-format-14 --dry-run --Werror "${sources[@]}" ||
    die "the files above are not formatted; run scripts/lint.sh --fix"
fi

step "Checking the scripts (shellcheck)"
shellcheck scripts/*.sh .ci/run cmake/*.sh tests/slurm/local_cluster slurm/templates/*.sh slurm/env/*.sh ||
  die "shellcheck reports the problems above"

step "Checking the design (tests/tidy)"
python3 -m unittest discover --quiet -s tests/tidy -p '*_test.py' ||
  die "the tests of the design failed (above)"

if [[ $quick == yes ]]; then exit 0; fi

step "Checking the code (clang-tidy ${ddprun_clang_tidy_version%%.*})"
configure dev -DDDPRUN_TRAINER=OFF
if [[ $with_torch == yes ]]; then configure release -DDDPRUN_TRAINER=ON -DDDPRUN_UNITY=OFF; fi
python3 scripts/run_clang_tidy.py "$ddprun_clang_tidy" "${databases[@]}" ||
  die "clang-tidy reports the problems above"
step "No problems found"
