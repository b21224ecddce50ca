// SPDX-License-Identifier: Apache-2.0
// weir ipc: tensors that processes share by name.

#include <cstdio>
#include <string>
#include <string_view>

#include "commands.hpp"
#include "labels.hpp"
#include "names_serve.hpp"
#include "names_show.hpp"
#include "table.hpp"
#include "weir/client.hpp"

namespace weir::cli {
namespace {

constexpr char usage[] =
    "usage: weir ipc serve [--read-only] SOCKET NAME=FILE.npy|NAME=TYPE:SHAPE ...\n"
    "                                   publish files, or zeros such as frame=float32:480x640, until Ctrl-C;\n"
    "                                   --read-only: nobody else can ever write them\n"
    "       weir ipc list SOCKET        name, type, shape and place of what is published\n"
    "       weir ipc read SOCKET NAME [FILE.npy]\n"
    "                                   print a tensor, or write it to a file\n"
    "       weir ipc stat SOCKET        who is connected, and what each has\n";

std::string shape_text(const Layout& layout) {
  std::string text = "[";
  for (const std::int64_t extent : layout.shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + ']';
}

int list(const std::string& path) {
  ipc::Client client(path);
  Table table{{"name", "type", "shape", "where", "version", "size"}, 4};
  for (const ipc::Listing& tensor : client.list()) {
    table.add({tensor.name, tensor.layout.dtype.to_string(), shape_text(tensor.layout), tensor.where,
               std::to_string(tensor.version), size_text(tensor.bytes)});
  }
  return std::fputs(table.text(0).c_str(), stdout) < 0;
}

int stat(const std::string& path) {
  ipc::Client client(path);
  Table table{{"client", "user", "is", "has", "version", "times", "size"}, 4};
  for (const ipc::Guest& guest : client.guests()) {
    const std::string number = std::to_string(guest.number), user = std::to_string(guest.user);
    const std::string state = !guest.connected ? "gone" : guest.subscribed ? "subscribed" : "connected";
    if (guest.loans.empty()) table.add({number, user, state, "-", "-", "-", "-"});
    for (const ipc::Loan& loan : guest.loans) {
      table.add({number, user, state, loan.name, std::to_string(loan.version), std::to_string(loan.count),
                 size_text(loan.bytes)});
    }
  }
  return std::fputs(table.text(0).c_str(), stdout) < 0;
}

}  // namespace

int names(std::span<char*> arguments) {
  const std::string_view word = arguments.empty() ? "" : arguments[0];
  const std::size_t count = arguments.size();
  if (word == "serve") {
    const bool read_only = count >= 2 && std::string_view(arguments[1]) == "--read-only";
    const auto rest = arguments.subspan(read_only ? 2 : 1);
    if (rest.size() >= 2) return serve_names(rest[0], rest.subspan(1), read_only);
  }
  if (word == "list" && count == 2) return list(arguments[1]);
  if (word == "read" && (count == 3 || count == 4))
    return show_name(arguments[1], arguments[2], count == 4 ? arguments[3] : nullptr);
  if (word == "stat" && count == 2) return stat(arguments[1]);
  std::fputs(usage, stderr);
  return 2;
}

}  // namespace weir::cli
