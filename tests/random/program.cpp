// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <charconv>
#include <span>
#include <sstream>
#include <stdexcept>

#include "bytes.hpp"

namespace weir::test::random {
namespace {

// n is a number, w a word, every other letter an object that is written with it: b buffer, c channel, e event, g gate,
// p parcel of a channel, r resource, s stream, t tensor, x descriptor.
struct Form {
  Verb verb;
  const char* name;
  const char* arguments;
};

constexpr Form forms[] = {
    {Verb::stream, "stream", "sw"},              // device
    {Verb::resource, "resource", "rwwww"},       // device, kind, plain | exportable, fresh | passed | ordered
    {Verb::alloc, "alloc", "brnns"},             // bytes, alignment
    {Verb::write, "write", "bnnns"},             // offset, bytes, seed
    {Verb::read, "read", "bnns"},                // offset, bytes
    {Verb::copy, "copy", "bnbnns"},              // to, offset, from, offset, bytes
    {Verb::assign, "assign", "bbs"},             // to, from: all of it
    {Verb::clone, "clone", "bbs"},               // new, from
    {Verb::fill, "fill", "bnnnns"},              // offset, bytes, pattern's bytes, seed
    {Verb::share, "share", "bb"},                // new, of
    {Verb::slice, "slice", "bbnn"},              // new, of, offset, bytes
    {Verb::poke, "poke", "bnnn"},                // the host itself: offset, bytes, seed
    {Verb::peek, "peek", "bnn"},                 // the host itself: offset, bytes
    {Verb::call_write, "call_write", "bnnnsw"},  // a host function: offset, bytes, seed; told | untold
    {Verb::call_read, "call_read", "bnnsw"},
    {Verb::close, "close", "b"},
    {Verb::close_on, "close_on", "bs"},
    {Verb::record, "record", "es"},
    {Verb::wait, "wait", "se"},
    {Verb::sync, "sync", "s"},
    {Verb::await, "await", "e"},
    {Verb::probe, "probe", "s"},                 // must not be done behind a closed gate
    {Verb::ask, "ask", "e"},
    {Verb::gate, "gate", "g"},
    {Verb::hold, "hold", "sg"},
    {Verb::open, "open", "g"},
    {Verb::drop, "drop", "s"},
    {Verb::forget, "forget", "r"},
    {Verb::trim, "trim", "r"},
    {Verb::export_tensor, "export", "tbs"},
    {Verb::import_tensor, "import", "bts"},
    {Verb::delete_tensor, "delete", "t"},
    {Verb::look, "look", "tnn"},                 // the consumer reads through the tensor, on its stream
    {Verb::send, "send", "xbsn"},                // to a process
    {Verb::receive, "receive", "bxs"},
    {Verb::connect, "connect", "cn"},            // of both processes: window
    {Verb::pack, "pack", "pcbnw"},               // for the next post: channel, buffer, payload's seed; writable | read_only
    {Verb::post, "post", "cs"},                  // all that is packed, by one call
    {Verb::take, "take", "bps"},                 // the next one that came over its channel
    {Verb::miss, "miss", "ps"},                  // the same, but its work ended with the process that should do it
    {Verb::hang, "hang", "c"},                   // close this end
    {Verb::die, "die", ""},                      // process 1, at once; process 0 sees that
    {Verb::meet, "meet", ""},                    // of both processes
    {Verb::lose, "lose", ""},                    // for tests of the tests: the next step is not taken
};

const Form& form_of(Verb verb) { return forms[static_cast<std::size_t>(verb)]; }

static_assert([] {
  for (std::size_t i = 0; i < std::size(forms); ++i) {
    if (forms[i].verb != static_cast<Verb>(i)) return false;
  }
  return true;
}());

bool number_from(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

Op parse_line(const std::string& line) {
  const auto refuse = [&line]() { throw std::invalid_argument("not a step: " + line); };
  std::istringstream in(line);
  std::string word;
  Op op;
  in >> op.process >> word;
  if (!in || op.process < 0 || op.process > 1) refuse();
  const Form* form = nullptr;
  for (const Form& known : forms) {
    if (known.name == word) form = &known;
  }
  if (!form) refuse();
  op.verb = form->verb;
  for (const char letter : std::string_view(form->arguments)) {
    if (!(in >> word)) refuse();
    if (letter == 'w') {
      op.words.push_back(word);
      continue;
    }
    std::string_view digits = word;
    if (letter != 'n') {
      if (digits.front() != letter) refuse();
      digits.remove_prefix(1);
    }
    if (!number_from(digits, op.args.emplace_back())) refuse();
  }
  if (in >> word) refuse();
  return op;
}

}  // namespace

std::string to_text(const Op& op) {
  const Form& form = form_of(op.verb);
  std::string line = std::to_string(op.process) + ' ' + form.name;
  std::size_t number = 0, word = 0;
  for (const char letter : std::string_view(form.arguments)) {
    line += ' ';
    if (letter == 'w') {
      line += op.words.at(word++);
      continue;
    }
    if (letter != 'n') line += letter;
    line += std::to_string(op.args.at(number++));
  }
  return line;
}

std::string to_text(const Program& program) {
  std::string text;
  for (const Op& op : program) text += to_text(op) + '\n';
  return text;
}

Program parse(std::string_view text) {
  Program program;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.front() != '#') program.push_back(parse_line(line));
  }
  return program;
}

std::uint64_t fill_pattern_of(const Op& op) {
  const auto width = op.args[3];
  std::uint64_t value = 0;
  const Bytes all = pattern(8, static_cast<std::uint32_t>(op.args[4]));
  for (std::size_t i = 0; i < width && i < 8; ++i) value |= std::to_integer<std::uint64_t>(all[i]) << (8 * i);
  return value;
}

std::vector<std::byte> bytes_of(const Op& op) {
  switch (op.verb) {
    case Verb::write:
    case Verb::poke:
    case Verb::call_write: return pattern(op.args[2], static_cast<std::uint32_t>(op.args[3]));
    case Verb::fill: {
      const auto value = fill_pattern_of(op);
      Bytes bytes(op.args[2]);
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::byte>(value >> (8 * (i % op.args[3])) & 0xff);
      }
      return bytes;
    }
    default: return {};
  }
}

}  // namespace weir::test::random
