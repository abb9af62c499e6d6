#pragma once

// MATLAB's files of level 5, which MATLAB 5 to 7.2 save and `save -v7` still does, as far as the
// table in ImageNet's devkit goes: a variable that is an array of structs, of whose fields the
// texts and single numbers are read. ("MAT-File Format", The MathWorks.)

#include "base/error.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun {

/// A field of a struct; none where it is neither a text nor one number. Of texts what is not ASCII
/// is a question mark.
using MatValue = std::variant<std::monostate, double, std::string>;

/// An array of structs.
struct MatTable {
  std::vector<std::string> fields;
  std::vector<std::vector<MatValue>> rows;  // (structs, fields)

  /// The place of a field in each row.
  std::optional<std::size_t> column(std::string_view field) const;
};

/// The `variable` of a file. Fails with kCorrupt where there is none, it is no array of structs, or
/// the file is damaged, cut off, or of another level or byte order; with kLimit where it has or
/// inflates to more than 64 MiB.
Result<MatTable> read_mat_table(std::string_view file, std::string_view variable);

}  // namespace ddprun
