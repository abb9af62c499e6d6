#pragma once

// All that the trainer uses of torch, compiled once: this header costs 45 s per set of flags.
// Two compilers that write it at one time leave it broken, and ccache keeps that: where two scripts
// or people may build in one folder, one waits for the other (alone_in in scripts/common.sh).

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/torch.h>
