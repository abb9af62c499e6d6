#pragma once

// Flags that public scripts take without a value, and ddptrain with one.

#include <string>
#include <vector>

namespace ddprun {

/// What a flag that stands alone is taken to say.
inline constexpr char kPretrainedAlone[] = "torchvision";
inline constexpr char kResumeAlone[] = "auto";
inline constexpr char kCompileAlone[] = "default";

/// `arguments` with a value for each --pretrained, --resume and --compile that has none: nothing
/// stands behind it, or another flag, or a `name=value`. `--compile=` is left out, as Mila's script
/// takes it for no.
std::vector<std::string> complete_bare_flags(const std::vector<std::string>& arguments);

}  // namespace ddprun
