#pragma once

// MATLAB's level 5 files, which MATLAB 5 to 7.2 write, and `save -v7` still does, as far as the
// table in ImageNet's devkit needs: a variable that is an array of structs, whose text and
// single-number fields are read. ("MAT-File Format", The MathWorks.)

#include "base/error.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun {

/// A field of a struct; monostate if it is neither a text nor one number. Non-ASCII characters of a
/// text become question marks.
using MatValue = std::variant<std::monostate, double, std::string>;

/// An array of structs.
struct MatTable {
  std::vector<std::string> fields;
  std::vector<std::vector<MatValue>> rows;  // (structs, fields)

  /// The index of a field in each row.
  std::optional<std::size_t> column(std::string_view field) const;
};

/// The variable `variable` of a file. Fails with kCorrupt if it does not exist or is not an array
/// of structs, or if the file is damaged, truncated, or of another level or byte order; with kLimit
/// if the file or all its decompressed data exceed 64 MiB, or the table a million values.
Result<MatTable> read_mat_table(std::string_view file, std::string_view variable);

}  // namespace ddprun
