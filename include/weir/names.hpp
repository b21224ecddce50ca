// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a Server and its Clients tell each other of tensors that have names. Read server.hpp and client.hpp.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weir/layout.hpp"

namespace weir::ipc {

/// One tensor under its name.
struct Listing {
  std::string name;           ///< 1 to 255 bytes, UTF-8 without control characters and `*`
  std::uint64_t version = 0;  ///< grows with every change that the server makes to any of its names
  Layout layout;              ///< of the elements in the memory that a client gets
  std::size_t bytes = 0;      ///< of that memory; 0 for a tensor without elements
  std::string where;          ///< for people: device and kind of memory, as the server calls them
};

/// What a News tells.
enum class Change {
  published,  ///< the tensor is there, in place of an earlier one of that name if there was one
  withdrawn,  ///< the name is gone; the listing has only the name and the version
  missed      ///< the subscriber was too slow and missed changes up to this version: ask for the list again
};

/// One change of a server's names. A News whose version is not above that of a Listing is older than the Listing.
struct News {
  Change change = Change::missed;  ///< what happened
  Listing tensor;                  ///< what it happened to
};

/// Tensors of one publishing that one client has.
struct Loan {
  std::string name;           ///< under which the client got it
  std::uint64_t version = 0;  ///< of the publishing
  std::size_t count = 0;      ///< how many times it was got and is not given back
  std::size_t bytes = 0;      ///< of the memory, which is the same for all of them
};

/// One client, as its server sees it.
struct Guest {
  std::uint64_t number = 0;  ///< in the order of arrival
  std::uint32_t user = 0;    ///< user id, as the kernel gave it
  bool connected = false;    ///< false for a client that has left and still holds something
  bool subscribed = false;   ///< the connection is that of a Subscription, which holds nothing
  std::vector<Loan> loans;   ///< in the order of versions
};

}  // namespace weir::ipc
