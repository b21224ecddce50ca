// SPDX-License-Identifier: Apache-2.0
// weir replay: a recorded trace on a resource in words.

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "commands.hpp"
#include "replay/read_trace.hpp"
#include "replay/report.hpp"
#include "replay/spec.hpp"
#include "weir/weir.hpp"

namespace weir::cli {
namespace {

constexpr std::size_t picture_columns = 1000;
constexpr unsigned most_passes = 1000;

struct Options {
  std::string trace, spec, page;
  bool json = false, single_thread = false;
  unsigned passes = 1;
};

/// Read the arguments into `options`. Returns what is wrong with them, or nothing.
std::optional<std::string> read(std::span<char*> arguments, Options& options) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string argument = arguments[i];
    const auto value = [&](std::string& into) {
      if (++i == arguments.size()) return false;
      into = arguments[i];
      return true;
    };
    if (argument == "--json") {
      options.json = true;
    } else if (argument == "--single-thread") {
      options.single_thread = true;
    } else if (argument == "--resource") {
      if (!value(options.spec)) return "--resource needs a resource, such as 'pool(cuda.async)'";
    } else if (argument == "--html") {
      if (!value(options.page)) return "--html needs the name of a file";
    } else if (argument == "--repeat") {
      std::string count;
      if (!value(count)) return "--repeat needs a number";
      const char* const end = count.data() + count.size();
      const auto [stopped, error] = std::from_chars(count.data(), end, options.passes);
      if (error != std::errc{} || stopped != end || options.passes == 0 || options.passes > most_passes) {
        return "--repeat takes a number from 1 to " + std::to_string(most_passes) + ", not '" + count + "'";
      }
    } else if (argument.starts_with('-') || !options.trace.empty()) {
      return "do not understand '" + argument + "'";
    } else {
      options.trace = argument;
    }
  }
  if (options.trace.empty()) return "replay needs the file of a trace";
  if (options.spec.empty()) return "replay needs a resource: --resource 'pool(host)'";
  return std::nullopt;
}

void write_file(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(), path);
}

}  // namespace

int replay(std::span<char*> arguments) {
  Options options;
  if (const auto wrong = read(arguments, options)) {
    std::fprintf(stderr,
                 "weir: %s\nusage: weir replay TRACE --resource SPEC [--json] [--html FILE] "
                 "[--single-thread] [--repeat N]\n",
                 wrong->c_str());
    return 2;
  }
  const replay::Spec spec(options.spec);
  const replay::Trace trace = replay::read_trace(options.trace);
  ResourcePtr resource = spec.make();
  const Device device = resource->device();
  replay::Replay done{options.trace,
                      options.spec,
                      resource->name(),
                      device.id() + " (" + std::string(device.name()) + ')',
                      &trace,
                      1,
                      1,
                      {}};
  {
    replay::Player player(trace, std::move(resource), !options.single_thread);
    done.threads = player.threads();
    done.streams = player.streams();
    for (unsigned i = 0; i < options.passes; ++i) done.passes.push_back(player.play());
  }
  std::size_t failures = done.failures();
  if (!options.page.empty()) {
    const replay::Profile picture = replay::profile(trace, spec.make(), picture_columns);
    failures += picture.failures;
    write_file(options.page, page_of(done, picture));
  }
  const std::string text = options.json ? json_of(done) : text_of(done);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) return 1;
  return failures == 0 ? 0 : 1;
}

}  // namespace weir::cli
