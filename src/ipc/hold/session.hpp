// SPDX-License-Identifier: Apache-2.0
#pragma once
// One connection of a holder, without its socket: packets and files in, packets and files out.

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ipc/hold/sending.hpp"
#include "ipc/hold/staging.hpp"
#include "ipc/hold/store.hpp"

namespace weir::detail::hold {

template <class File>
class Session {
 public:
  explicit Session(Store<File>& store) : store_(store) {}
  /// Of a client that is only told why it is not served.
  Session(Store<File>& store, const Refused& why) : store_(store), answer_(encode(why)), ends_(true) {}

  /// Take a packet. `lost` says that files of it were lost, because the process can open no more. Throws
  /// corrupt_descriptor when the client broke the protocol, and has to be cut off.
  void receive(Bytes packet, std::vector<File> files, bool lost) {
    if (ends_) return;
    const Message message = decode(packet);
    if (!lost && files.size() != files_of(message))
      violated(std::to_string(files.size()) + " files beside a message that needs " +
               std::to_string(files_of(message)));
    if (const auto* const hello = std::get_if<Hello>(&message)) return greet(*hello);
    if (auto* const writer = std::get_if<Staging<File>>(&role_))
      return write(*writer, message, packet, std::move(files), lost);
    const auto* const question = std::get_if<Open>(&message);
    auto* const reader = std::get_if<Sending<File>>(&role_);
    if (!question || !reader) violated("a message that is not its to send");
    reader->ask(*question);
  }

  [[nodiscard]] bool has_packet() const {
    const auto* const reader = std::get_if<Sending<File>>(&role_);
    return answer_ || (reader && reader->has_packet());
  }
  /// Make the packet that goes next, and name the files beside it. They stay valid until sent().
  void compose(Packet& packet, std::vector<const File*>& files) {
    files.clear();
    if (answer_) packet = *answer_;
    else std::get<Sending<File>>(role_).compose(packet, files);
  }
  void sent() {
    if (answer_) answer_.reset();
    else std::get<Sending<File>>(role_).sent();
  }
  [[nodiscard]] bool greeted() const noexcept { return !std::holds_alternative<std::monostate>(role_); }
  /// Return whether the client has sent a part of a set, which takes room until the rest has come.
  [[nodiscard]] bool has_begun_a_set() const noexcept {
    const auto* const writer = std::get_if<Staging<File>>(&role_);
    return writer && writer->has_begun();
  }
  /// Forget that part.
  void give_up_set() {
    if (auto* const writer = std::get_if<Staging<File>>(&role_)) writer->give_up();
  }
  /// Return whether the client is being sent a set, of which it has not taken all packets.
  [[nodiscard]] bool is_sending_a_set() const noexcept {
    const auto* const reader = std::get_if<Sending<File>>(&role_);
    return reader && reader->has_begun();
  }
  /// Return whether the holder hangs up once the packet that there is was sent.
  [[nodiscard]] bool ends() const noexcept { return ends_; }

 private:
  void greet(const Hello& hello) {
    if (!std::holds_alternative<std::monostate>(role_)) violated("a second greeting");
    if (hello.version != protocol_version) {
      answer_ = encode(Refused{Why::version, protocol_version});
      ends_ = true;
      return;
    }
    answer_ = encode(Welcome{protocol_version});
    if (hello.role == Role::writer) role_.template emplace<Staging<File>>(store_, std::string(hello.set));
    else role_.template emplace<Sending<File>>(store_, std::string(hello.set));
  }

  void write(Staging<File>& writer, const Message& message, Bytes packet, std::vector<File> files, bool lost) {
    if (answer_) violated("a message before the answer to the one before");
    if (lost) {
      writer.lost_files();
      files.clear();
    }
    if (const auto* const segments = std::get_if<Segments>(&message)) {
      writer.add(*segments, std::move(files));
    } else if (const auto* const tensors = std::get_if<Tensors>(&message)) {
      writer.add(*tensors, packet);
    } else if (const auto* const commit = std::get_if<Commit>(&message)) {
      answer_ = writer.commit(*commit, std::move(files));
    } else if (std::holds_alternative<Remove>(message)) {
      writer.remove();
      answer_ = encode(Committed{0});
    } else {
      violated("a message that is not a writer's");
    }
  }

  Store<File>& store_;
  std::variant<std::monostate, Staging<File>, Sending<File>> role_;
  std::optional<Packet> answer_;
  bool ends_ = false;
};

}  // namespace weir::detail::hold
