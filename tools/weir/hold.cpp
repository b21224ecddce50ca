// SPDX-License-Identifier: Apache-2.0
// weir hold: a process that keeps sets of tensors alive, and loads no GPU driver.

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "commands.hpp"
#include "signals.hpp"
#include "weir/holder.hpp"

namespace weir::cli {
namespace {

ipc::Holder* serving = nullptr;

extern "C" void stop_serving(int) { serving->stop(); }

/// Each segment is a file, so the more of them may be open the better.
void raise_limit_of_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

struct Options {
  std::string path;
  ipc::HolderOptions holder;
};

/// Read the arguments into `options`. Returns what is wrong with them, or nothing.
std::optional<std::string> read(std::span<char*> arguments, Options& options) {
  std::size_t seconds = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    std::size_t* const limit = word == "--sets"          ? &options.holder.sets
                               : word == "--tensors"     ? &options.holder.tensors
                               : word == "--bytes"       ? &options.holder.bytes
                               : word == "--files"       ? &options.holder.files
                               : word == "--connections" ? &options.holder.connections
                               : word == "--patience"    ? &seconds
                                                         : nullptr;
    if (limit) {
      const std::string_view number = ++i < arguments.size() ? arguments[i] : "";
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), *limit);
      if (error != std::errc{} || end != number.data() + number.size() || *limit == 0)
        return std::string(word) + " needs a number greater than 0";
    } else if (word == "--other-users") {
      options.holder.other_users = true;
    } else if (word.starts_with('-') || !options.path.empty()) {
      return "do not understand '" + std::string(word) + "'";
    } else {
      options.path = word;
    }
  }
  constexpr std::size_t for_ever = std::size_t{1} << 32;
  if (seconds != 0) options.holder.patience = std::chrono::seconds(std::min(seconds, for_ever));
  if (options.path.empty()) return "hold needs the path of a socket";
  return std::nullopt;
}

}  // namespace

int hold(std::span<char*> arguments) {
  Options options;
  if (const auto wrong = read(arguments, options)) {
    std::fprintf(stderr,
                 "weir: %s\nusage: weir hold PATH [--sets N] [--tensors N] [--bytes N] [--files N] [--connections N] "
                 "[--patience SECONDS] [--other-users]\n",
                 wrong->c_str());
    return 2;
  }
  raise_limit_of_files();
  ipc::Holder holder(options.path, options.holder);
  serving = &holder;
  struct sigaction stopping {};
  stopping.sa_handler = stop_serving;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(signal)) (void)::sigaction(signal, &stopping, nullptr);
  }
  if (std::printf("weir: holding sets at %s\n", options.path.c_str()) < 0 || std::fflush(stdout) != 0) return 1;
  holder.run();
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(signal)) (void)::sigaction(signal, &usual, nullptr);
  }
  return 0;
}

}  // namespace weir::cli
