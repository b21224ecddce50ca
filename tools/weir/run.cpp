// SPDX-License-Identifier: Apache-2.0
// The words of the command line.
#include <cstdio>
#include <exception>
#include <string_view>

#include "commands.hpp"
#include "peer_process.hpp"
#include "weir/version.hpp"

namespace weir::cli {
namespace {

constexpr char usage[] =
    "usage: weir <command>\n"
    "\n"
    "  devices [--json]   backends, devices, kinds of memory; why a backend is missing\n"
    "  demo               allocate, fill, copy, share with other processes (by descriptor, name, ring and set) on "
    "every\n"
    "                     device; check every byte\n"
    "  replay TRACE --resource SPEC [--json] [--html FILE] [--single-thread] [--repeat N]\n"
    "                     play a recorded trace on a resource such as 'pool(cuda.async)'; times, peaks, failures\n"
    "  hold PATH          keep sets of tensors alive for programs that come and go; loads no GPU driver\n"
    "  ipc serve | list | read | stat ...\n"
    "                     share tensors between processes by name; 'weir ipc' says how\n"
    "  help               this text\n"
    "  --version          version of weir\n"
    "\n"
    "WEIR_DEVICE=vulkan:0 names the device that programs get as the best one.\n";

int misused(std::string_view argument) {
  std::fprintf(stderr, "weir: do not understand '%.*s'\n%s", static_cast<int>(argument.size()), argument.data(), usage);
  return 2;
}

int command(std::span<char*> arguments, const Program& program) {
  if (arguments.empty()) {
    std::fputs(usage, stderr);
    return 2;
  }
  const std::string_view word = arguments[0];
  const std::span options = arguments.subspan(1);
  if (word == "devices") {
    if (options.empty()) return devices(false);
    if (options.size() == 1 && std::string_view{options[0]} == "--json") return devices(true);
    return misused(options[std::string_view{options[0]} == "--json" ? 1 : 0]);
  }
  if (word == "replay") return replay(options);
  if (word == "hold") return hold(options);
  if (word == "ipc") return names(options);
  if (word == visitor_command) return demo_visitor(options);
  if (!options.empty()) return misused(options[0]);
  if (word == "demo") return demo(program);
  if (word == peer_command) return demo_peer(peer_socket);
  if (word == "help" || word == "--help" || word == "-h") return std::fputs(usage, stdout) < 0;
  if (word == "--version") return std::puts("weir " WEIR_VERSION_STRING) < 0;
  return misused(word);
}

}  // namespace

int run(std::span<char*> arguments, const Program& program) {
  int status = 1;
  try {
    status = command(arguments, program);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weir: %s\n", e.what());
  }
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fputs("weir: the output could not be written\n", stderr);
  return status == 0 ? 1 : status;
}

}  // namespace weir::cli
