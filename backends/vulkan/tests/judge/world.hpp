// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the judge knows: the objects of judged devices, what the host has seen, and the one lock over them.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ranges.hpp"
#include "scopes.hpp"

namespace judge {

struct Mapping;

using Lock = std::unique_lock<std::mutex>;
/// Everything below is under this one lock. The driver is waited for without it.
std::mutex& lock_of_all();

/// The functions that calls go on to, those of the real loader: they find the device by the handle.
struct Next {
#define JUDGED(name) PFN_##name name = nullptr;
#include "functions.inc"
};
Next& next();

/// The same functions, judged.
namespace calls {
#define JUDGED(name) std::remove_pointer_t<PFN_##name> name;
#include "functions.inc"
}  // namespace calls

/// How one command touched some bytes.
struct Access {
  Point point;
  const char* call = nullptr;
  int batch = 0;
};

/// What is known of some bytes of a memory.
struct Cell {
  Access write;               ///< the last one
  std::vector<Access> reads;  ///< since then, the last of each queue
  struct Shown {              ///< of the write, by a barrier for these bytes alone, to what comes later on that queue
    int queue = -1;
    bool available = false, read = false, written = false;
  } shown;
};

/// The bytes behind one or more VkDeviceMemory: what is exported and imported again in this process is one.
struct Payload {
  int number = 0;
  Ranges<Cell> cells;
};

struct Device {
  VkDevice handle = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  PFN_vkGetMemoryFdKHR get_fd = nullptr;  ///< null without the extension
  std::uint32_t real_queues = 0;          ///< of the family
  std::uint32_t family = 0;
  std::uint32_t allocations = 0;   ///< of memory, alive
  std::vector<VkSemaphore> ended;  ///< with the device at last: Mesa (22.3) looks at them when a batch is over
};

struct Memory {
  VkDeviceMemory handle = VK_NULL_HANDLE;
  Device* device = nullptr;
  int number = 0;
  Bytes size = 0;
  bool external = false;  ///< others can have it: to be acquired and released
  bool mappable = true;
  bool coherent = true;
  std::shared_ptr<Payload> payload;
  std::shared_ptr<Mapping> mapping;
  int taken = -1;  ///< the descriptor it was imported from, which is the driver's
  Clock uses;
};

struct Buffer {
  VkBuffer handle = VK_NULL_HANDLE;
  int number = 0;
  Bytes size = 0;
  std::shared_ptr<Memory> memory;
  Bytes offset = 0;             ///< within the memory
  VkDeviceAddress address = 0;  ///< once somebody asked for it
  Clock uses;
};

/// One range that a command reads or writes, in bytes of the memory.
struct Part {
  std::shared_ptr<Buffer> buffer;
  Bytes begin, end;
  bool write;
};

struct Touch {
  const char* call;
  std::vector<Part> parts;
  Where where = Where::copies;
};

struct Barrier {
  struct OfBuffer {
    Part part;
    VkAccessFlags from, to;
    std::uint32_t from_family, to_family;
  };
  Scope first, second;
  std::vector<VkMemoryBarrier> global;
  std::vector<OfBuffer> buffers;
};

using Command = std::variant<Touch, Barrier>;

struct CommandBuffer {
  enum class State { initial, recording, executable, spent };
  VkCommandPool pool = VK_NULL_HANDLE;
  State state = State::initial;
  bool once = false;
  Bytes unit = 0;                  ///< of the shader that is bound, if it is the one that copies rows
  std::vector<std::byte> numbers;  ///< what the shader was told
  std::vector<Command> commands;
  Point last;  ///< the end of the last batch that it was submitted in
};

/// One value that a submitted batch, or the host, signals.
struct Signal {
  std::uint64_t value = 0;
  Clock before;         ///< complete and available by then
  Clock read, written;  ///< of that, what the host may read and write
};

struct Semaphore {
  int number = 0;
  bool timeline = false;
  std::deque<Signal> signals;  ///< not seen by the host yet, by value
  std::uint64_t seen = 0;      ///< the host has seen this value
  std::uint64_t last = 0;      ///< the last one submitted
  std::uint64_t handed = 0;    ///< the last one that the driver has
  unsigned polls = 0;          ///< by the host in vain, since the last batch was let go for it
  Clock uses;
};

/// A batch that was submitted and not yet handed to the driver.
struct Held {
  std::vector<VkSemaphore> waits, signals;
  std::vector<std::uint64_t> wait_values, signal_values;
  std::vector<VkPipelineStageFlags> stages;
  std::vector<VkCommandBuffer> commands;
};

struct Queue {
  VkQueue real = VK_NULL_HANDLE;
  Device* device = nullptr;
  int place = 0;  ///< in clocks
  Number issued = 0;
  bool busy = false;  ///< a thread is inside a call with it
  Views views;
  struct Run {
    Number first;
    Where where;
  };
  std::vector<Run> runs{{0, Where::copies}};  ///< commands that happen in the same place, one after the other
  std::deque<Held> held;
};

/// A host thread that waits for a value of a semaphore.
struct Waiter {
  VkSemaphore semaphore;
  std::uint64_t value;
};

struct World {
  std::unordered_map<VkDevice, std::unique_ptr<Device>> devices;
  std::unordered_map<VkQueue, std::unique_ptr<Queue>> queues;
  std::unordered_map<VkDeviceMemory, std::shared_ptr<Memory>> memories;
  std::unordered_map<VkBuffer, std::shared_ptr<Buffer>> buffers;
  std::unordered_map<VkCommandBuffer, CommandBuffer> commands;
  std::unordered_map<VkCommandPool, std::set<VkCommandBuffer>> pools;
  std::unordered_map<VkSemaphore, Semaphore> semaphores;
  std::unordered_map<VkShaderModule, Bytes> row_shaders;  // that copy rows, and of what units
  std::unordered_map<VkPipeline, Bytes> row_pipelines;
  std::list<Waiter> waiters;
  std::set<std::shared_ptr<Memory>> written;  // by the device, where it is mapped: the host side lags behind
  std::array<Number, most_queues> issued{};   // by queues that ended, where their places are free
  std::array<bool, most_queues> taken{};
  struct Host {
    Clock over;           ///< what it knows to be complete
    Clock read, written;  ///< whose writes it may read, and write over
  } host;
  int batches = 0, numbers = 0;
};
World& world();

template <class Map>
auto* find(Map& map, const typename Map::key_type& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &*found->second;
}
inline CommandBuffer* find(std::unordered_map<VkCommandBuffer, CommandBuffer>& map, VkCommandBuffer key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}
inline Semaphore* find(std::unordered_map<VkSemaphore, Semaphore>& map, VkSemaphore key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

/// How the environment wants the driver to be.
struct Settings {
  std::uint32_t queues;       ///< JUDGED_VULKAN_QUEUES: of a family at least; 4
  bool eager;                 ///< JUDGED_VULKAN_EAGER=1: batches run when they are submitted, not when somebody waits
  bool discrete;              ///< JUDGED_VULKAN_DISCRETE=1: memory types as a discrete GPU has them
  bool noncoherent;           ///< WEIR_VULKAN_FORCE_NONCOHERENT=1: no mapped memory is kept coherent
  std::uint32_t allocations;  ///< JUDGED_VULKAN_ALLOCATIONS: at once, the driver's limit; 0: as it is
};
const Settings& settings();

// commands.cc
/// Add a command that touches bytes.
void record(VkCommandBuffer handle, const char* call, std::vector<Part> parts, Where where = Where::copies);

// violations.cc
/// Record what no correct program does; the test that runs then fails.
void violation(const char* call, const std::string& what);
std::string describe(const Access& access);
std::string bytes(Bytes begin, Bytes end, const Memory& memory);

// order.cc
/// Judge a batch where it is submitted, and remember what it does. Waits and signals that no driver could do anything
/// with are taken out.
void order(Queue& queue, Held& batch);
/// The host has found `value` reached.
void seen(Semaphore& semaphore, std::uint64_t value);
/// The host has found everything on the queue complete.
void seen_idle(Queue& queue);

// queue.cc
/// Hand to the driver all that a semaphore needs to reach a value.
void let_go(VkSemaphore semaphore, std::uint64_t value);
void let_all_go(Queue& queue);
/// Something is destroyed although work may use it: let the driver end all work first, so that the violation is told
/// and nothing crashes.
void come_to_rest(Device& device);

// memory.cc
bool in_use(const Clock& uses);

// device.cc
/// A memory type as it is reported.
struct MemoryType {
  std::uint32_t real;
  bool mappable, coherent;
};
MemoryType memory_type(std::uint32_t reported);
/// The reported types that stand for these of the driver's.
std::uint32_t reported_types(std::uint32_t real_bits);

}  // namespace judge
