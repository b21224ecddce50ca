// SPDX-License-Identifier: Apache-2.0
#include "tensor/checks.hpp"

#include <string>

#include "copy/overlap.hpp"
#include "tensor/text.hpp"
#include "weir/error.hpp"

namespace weir::detail {

void check_elements_apart(const char* operation, const Layout& dst) {
  const auto overlap = overlap_of_elements(dst.dtype.bytes(), dst.shape, dst.strides);
  if (overlap == Overlap::no) return;
  throw Error(Errc::invalid_argument,
              std::string(operation) + ": elements of the destination " +
                  (overlap == Overlap::yes ? "share memory" : "lie too irregularly to say that none share memory") +
                  ": its strides are " + text_of(dst.strides));
}

}  // namespace weir::detail
