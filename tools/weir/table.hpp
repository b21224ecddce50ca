// SPDX-License-Identifier: Apache-2.0
#pragma once
// Columns of text.

#include <cstddef>
#include <string>
#include <vector>

namespace weir::cli {

/// Rows of cells, printed with aligned columns. The columns from `right_from` on are flushed right.
class Table {
 public:
  explicit Table(std::vector<std::string> header, std::size_t right_from = ~std::size_t{0})
      : rows_{std::move(header)}, right_from_(right_from) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] std::string text(std::size_t indent) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::size_t right_from_;
};

}  // namespace weir::cli
