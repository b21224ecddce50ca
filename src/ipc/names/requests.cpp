// SPDX-License-Identifier: Apache-2.0
#include "ipc/names/requests.hpp"

#include <string>

#include "ipc/bytes.hpp"
#include "ipc/names/packet.hpp"

namespace weir::detail::names {
namespace {

constexpr std::uint32_t half = UINT32_MAX / 2;

std::uint32_t request_of(const Answer& answer) {
  if (const auto* const refused = std::get_if<Refused>(&answer)) return refused->request;
  if (const auto* const names = std::get_if<Names>(&answer)) return names->request;
  if (const auto* const got = std::get_if<GotTensor>(&answer)) return got->request;
  if (const auto* const guests = std::get_if<Guests>(&answer)) return guests->request;
  violated("an answer to nothing");
}

}  // namespace

// Numbers begin anew after the greatest, so an earlier one may be greater.
bool Requests::is_answered_by(const Answer& answer) const {
  const auto request = request_of(answer);
  if (last_ - request > half) violated("an answer to request " + std::to_string(request) + ", which nobody made");
  return request == last_;
}

bool Requests::brings(std::span<const std::byte> payload) const {
  if (payload.size() != sizeof last_) violated("a buffer with " + std::to_string(payload.size()) + " bytes beside it");
  return get<std::uint32_t>(payload, 0) == last_;
}

}  // namespace weir::detail::names
