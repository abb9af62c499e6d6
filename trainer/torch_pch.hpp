#pragma once

// The headers of torch that the trainer uses, compiled once: this takes 45 s per set of flags. Two
// compilers that write it at once break it, and ccache keeps the broken file: if two scripts or
// people may build in one directory, one must wait for the other (alone_in in scripts/common.sh).

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/torch.h>
