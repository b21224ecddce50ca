// SPDX-License-Identifier: Apache-2.0
#include "weir/adaptors/logging.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <ostream>
#include <system_error>
#include <type_traits>
#include <utility>

#include "adaptors/adaptor.hpp"
#include "adaptors/logging/trace_writer.hpp"
#include "weir/spi/stream_state.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir {
namespace {

using detail::TraceWriter;

std::uint64_t now() noexcept {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds{1});
}

std::uint64_t this_thread() noexcept {
  thread_local const auto id = static_cast<std::uint64_t>(::gettid());
  return id;
}

// Replace control characters by spaces: a field must not contain what separates fields and lines.
std::string cleaned(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = ' ';
  }
  return text;
}

std::string reason(const Shortage& shortage) {
  if (!shortage.call.empty()) return ": " + shortage.call + ": " + shortage.native.message();
  return shortage.limit != 0 ? ": limit " + std::to_string(shortage.limit) : std::string();
}

/// One line, built without allocating.
class Line {
 public:
  Line& text(std::string_view text) noexcept {
    text = text.substr(0, line_.size() - 1 - used_);
    used_ += text.copy(line_.data() + used_, text.size());
    return *this;
  }
  Line& number(std::uint64_t value) noexcept {
    char* const end = line_.data() + line_.size() - 1;
    const auto [next, error] = std::to_chars(line_.data() + used_, end, value);
    if (error == std::errc{}) used_ = static_cast<std::size_t>(next - line_.data());
    return *this;
  }
  Line& field(std::uint64_t value) noexcept { return number(value).text("\t"); }
  [[nodiscard]] std::string_view finish() noexcept {
    line_[used_++] = '\n';
    return {line_.data(), used_};
  }

 private:
  std::array<char, TraceWriter::longest_line> line_;
  std::size_t used_ = 0;
};

struct Event {
  std::string_view operation;  ///< with the separators around it
  std::uint64_t buffer = 0, bytes = 0, alignment = 0, stream = 0;
};

class Logging final : public detail::Adaptor<LoggingResource> {
 public:
  Logging(ResourcePtr upstream, TraceWriter::Sink sink, const LoggingOptions& options)
      : Adaptor(std::move(upstream), "log"),
        about_(cleaned(device().id()).substr(0, 100) + '\t' + cleaned(upstream_->name()).substr(0, 300)),
        source_('\t' + about_),
        writer_(std::move(sink), options.buffer_bytes) {
    writer_.add("# weir trace 1\t" + about_ + '\n');
    writer_.add("# ns\tthread\tdevice\tresource\toperation\tbuffer\tbytes\talignment\tstream\tresult\n");
    writer_.flush();
  }

  void flush() noexcept override { writer_.flush(); }

  std::size_t trim(std::size_t bytes_to_keep) override {
    const Event event{"\ttrim\t", 0, bytes_to_keep};
    const std::size_t given_back = attempt(event, [&] { return upstream_->trim(bytes_to_keep); });
    Line line;
    writer_.add(begin(line, event).number(given_back).finish());
    return given_back;
  }

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    Event event{"\tallocate\t", 0, request.bytes, request.alignment, request.stream->id()};
    spi::Block* const block = attempt(event, [&] { return Adaptor::do_allocate(request, shortage); });
    if (!block) {
      refused_because(event, "out of memory", reason(shortage));
      return nullptr;
    }
    event.buffer = reinterpret_cast<std::uint64_t>(block);
    Line line;
    writer_.add(begin(line, event).text("ok").finish());
    return block;
  }

  void do_deallocate(spi::Block& block) noexcept override {
    Event event{"\tuse\t", reinterpret_cast<std::uint64_t>(&block), block.size, 0, 0};
    if (!block.only_at_home()) log_uses(block, event);
    event.operation = "\tclose\t";
    event.stream = block.stream ? block.stream->id() : 0;
    Line line;
    writer_.add(begin(line, event).text("ok").finish());
    give_back(block);
  }

  void log_uses(spi::Block& block, Event& event) noexcept {
    try {
      for (const spi::Point& use : block.uses()) {
        if (use.stream.get() == block.stream) continue;
        event.stream = use.stream->id();
        Line line;
        writer_.add(begin(line, event).text("ok").finish());
      }
    } catch (const std::bad_alloc&) {
      report({make_error_code(std::errc::not_enough_memory), "trace of a resource",
              "a buffer's uses are not written"});
    }
  }

  /// Return what `call` returns. If it throws, write why: upstream's own functions may throw anything.
  template <class Call>
  std::invoke_result_t<Call> attempt(const Event& event, Call call) {
    try {
      return call();
    } catch (const std::exception& error) {
      refused_because(event, "error: ", error.what());
      throw;
    } catch (...) {
      refused_because(event, "error: ", "an exception of an unknown type");
      throw;
    }
  }

  void refused_because(const Event& event, std::string_view kind, const std::string& why) {
    Line line;
    writer_.add(begin(line, event).text(kind).text(cleaned(why)).finish());
  }

  Line& begin(Line& line, const Event& event) const noexcept {
    line.field(now()).number(this_thread()).text(source_).text(event.operation);
    return line.field(event.buffer).field(event.bytes).field(event.alignment).field(event.stream);
  }

  const std::string about_, source_;  // device and resource; `source_` has the separator in front
  TraceWriter writer_;
};

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw std::system_error(errno, std::generic_category(), "write");
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace

LoggingPtr make_logging(ResourcePtr upstream, const std::string& path, const LoggingOptions& options) {
  upstream = detail::checked_upstream(std::move(upstream), "make_logging");
  const auto file =
      std::make_shared<spi::UniqueFd>(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!*file) throw std::system_error(errno, std::generic_category(), path);
  const auto sink = [file, path](std::string_view text) {
    try {
      write_all(file->get(), text);
    } catch (const std::system_error& error) {
      throw std::system_error(error.code(), path);
    }
  };
  return detail::make_adaptor<Logging>(std::move(upstream), sink, options);
}

LoggingPtr make_logging(ResourcePtr upstream, std::shared_ptr<std::ostream> stream,
                        const LoggingOptions& options) {
  upstream = detail::checked_upstream(std::move(upstream), "make_logging");
  if (!stream) throw Error(Errc::invalid_argument, "make_logging: there is no stream");
  const auto sink = [stream](std::string_view text) {
    stream->write(text.data(), static_cast<std::streamsize>(text.size())).flush();
    if (!*stream) throw std::runtime_error("the stream refuses to be written to");
  };
  return detail::make_adaptor<Logging>(std::move(upstream), sink, options);
}

}  // namespace weir
