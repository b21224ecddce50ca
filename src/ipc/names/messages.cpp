// SPDX-License-Identifier: Apache-2.0
#include "ipc/names/messages.hpp"

#include "ipc/names/packet.hpp"
#include "ipc/text.hpp"

namespace weir::detail::names {

bool is_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= longest_name && is_text(name) && name.find('*') == name.npos;
}

std::string_view beginning(std::string_view pattern) noexcept {
  return pattern.substr(0, pattern.size() - (pattern.ends_with('*') ? 1 : 0));
}

bool matches(std::string_view name, std::string_view pattern) noexcept {
  return pattern.ends_with('*') ? name.starts_with(beginning(pattern)) : name == pattern;
}

std::size_t encoded_size(const ipc::Listing& listing) noexcept {
  return 36 + 16 * listing.layout.shape.size() + listing.name.size() + listing.where.size();
}

std::size_t encoded_size(const ipc::Guest& guest) noexcept {
  std::size_t size = 16;
  for (const ipc::Loan& loan : guest.loans) size += 26 + loan.name.size();
  return size;
}

}  // namespace weir::detail::names
