#!/usr/bin/env bash
# Runs commands in a fresh clone inside a bare Debian, to show that nothing must be installed before:
#
#   scripts/clean_debian.sh [--root DIRECTORY] [--suite NAME] [--file FILE] [--pip-cache DIRECTORY] [COMMAND...]
#
#   --root DIRECTORY       directory of the system; created by debootstrap if it does not exist
#                          (default: build/clean-debian)
#   --suite NAME           its version (default: bookworm, Debian 12)
#   --file FILE            is copied to the parent directory of the clone
#   --pip-cache DIRECTORY  keeps pip's downloads for the next root
#
# Each COMMAND is one string for bash, run in the parent directory of the clone, in order; the first failure
# ends the run. Without a COMMAND: setup, demo and tests, each twice. The clone is a new one of HEAD. Needs root
# (debootstrap, chroot), network and 15 GB of disk.

source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

root="$ddprun_root/build/clean-debian"
suite=bookworm
file=
pip_cache=
while [[ "${1:-}" == --* ]]; do
  case "$1" in
    --root) root="$2" ;;
    --suite) suite="$2" ;;
    --file) file="$2" ;;
    --pip-cache) pip_cache="$2" ;;
    --help) show_help ;;
    *) die "unknown option '$1'; see scripts/clean_debian.sh --help" ;;
  esac
  shift 2
done
if (($# == 0)); then
  set -- ddprun/scripts/demo.sh ddprun/scripts/demo.sh ddprun/scripts/test.sh ddprun/scripts/test.sh
fi

((EUID == 0)) || die "needs root for debootstrap and chroot; run it with sudo"
command -v debootstrap >/dev/null || die "needs debootstrap: apt-get install debootstrap"

if [[ ! -x "$root/usr/bin/apt-get" ]]; then
  step "Installing a bare Debian, $suite, in $root"
  mkdir -p "$root"
  quietly debootstrap debootstrap --variant=minbase "$suite" "$root" http://deb.debian.org/debian
fi

step "Cloning $(git -C "$ddprun_root" rev-parse --short HEAD) into it"
rm -rf "$root/root/ddprun"
git clone --quiet --no-hardlinks "$ddprun_root" "$root/root/ddprun"
if [[ -n "$file" ]]; then cp -- "$file" "$root/root/"; fi

# Inside, only the variables that are needed to reach the registries are set.
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(hostname)" >"$root/etc/hosts"  # as installers do
passed_on=(HOME=/root TERM="${TERM:-dumb}" PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)
for name in http_proxy https_proxy no_proxy PIP_INDEX_URL PIP_DEFAULT_TIMEOUT; do
  if [[ -n "${!name:-}" ]]; then passed_on+=("$name=${!name}"); fi
done
if [[ -n "${SSL_CERT_FILE:-}" ]]; then
  # Not at its usual path, which the package ca-certificates writes.
  cp -L "$SSL_CERT_FILE" "$root/root/registries.crt"
  passed_on+=(SSL_CERT_FILE=/root/registries.crt PIP_CERT=/root/registries.crt)
fi

# In its own mount and PID namespaces, so that mounts and processes end with it.
inside() {
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -euc '
    root="$1" pip_cache="$2" command="$3"
    shift 3
    mount --bind "$root" "$root"  # a mount point, as every root is; otherwise unshare fails inside
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    if [[ -n "$pip_cache" ]]; then
      mkdir -p "$pip_cache" "$root/root/.cache/pip"
      mount --bind "$pip_cache" "$root/root/.cache/pip"
    fi
    exec env -i "$@" chroot "$root" bash -c "cd /root && $command"
  ' clean_debian "$root" "$pip_cache" "$1" "${passed_on[@]}"
}

for command in "$@"; do
  step "Inside: $command"
  started=$SECONDS
  inside "$command" || die "'$command' failed inside $root with status $?"
  step "'$command' succeeded after $((SECONDS - started)) s"
done
