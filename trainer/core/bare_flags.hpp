#pragma once

// Flags that public scripts use without a value, and ddptrain with one.

#include <string>
#include <vector>

namespace ddprun {

/// The value of a flag that stands alone.
inline constexpr char kPretrainedAlone[] = "torchvision";
inline constexpr char kResumeAlone[] = "auto";
inline constexpr char kCompileAlone[] = "default";

/// `arguments` with a value for each --pretrained, --resume and --compile without one: if nothing
/// follows, or another flag, or a `name=value`. `--compile=` is removed, since Mila's script reads
/// it as no.
std::vector<std::string> complete_bare_flags(const std::vector<std::string>& arguments);

}  // namespace ddprun
