// Frames: the messages between the ranks and the store, in both directions.
//
// Layout, integers little-endian: u32 size of the rest | u8 word | u16 size of the key | key |
// value
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace bellows {

enum class Word : uint8_t {
  hello,  // first frame of a connection; key: token, value: hello_of()
  set,
  get,   // answered once the key exists
  find,  // answered at once, with the value or `absent`
  add,   // value: an integer as text; answered with the new value
  remove,
  ok,  // this and the next two are answers; value: the result
  absent,
  refused,  // value: the reason
};

struct StoreFrame {
  Word word{};
  std::string key, value;
};

constexpr size_t kMaxKey = 256, kMaxValue = 1 << 20;
constexpr size_t kMaxFrame = kMaxValue + 1024;  // room for the key and the attempt's prefix
constexpr size_t kMaxHello = 1024;
constexpr char kMagic[] = "bellows-store";
constexpr int kVersion = 1;

inline std::string pack(Word word, std::string_view key, std::string_view value) {
  const auto key_size = static_cast<uint16_t>(key.size());
  const auto size = static_cast<uint32_t>(3 + key.size() + value.size());
  std::string frame(7, '\0');
  std::memcpy(frame.data(), &size, 4);
  frame[4] = static_cast<char>(word);
  std::memcpy(frame.data() + 5, &key_size, 2);
  return frame.append(key).append(value);
}

// Moves the first frame of `buffer` into `frame`. A frame that declares more than max_size bytes is
// invalid as soon as its size has arrived.
enum class Unpacked { frame, incomplete, invalid };
inline Unpacked unpack(std::string& buffer, size_t max_size, StoreFrame& frame) {
  uint32_t size = 0;
  uint16_t key_size = 0;
  if (buffer.size() < 4) return Unpacked::incomplete;
  std::memcpy(&size, buffer.data(), 4);
  if (size < 3 || size > max_size) return Unpacked::invalid;
  if (buffer.size() < 4 + size) return Unpacked::incomplete;
  std::memcpy(&key_size, buffer.data() + 5, 2);
  if (key_size > size - 3 || buffer[4] < 0 || buffer[4] > static_cast<char>(Word::refused))
    return Unpacked::invalid;
  frame.word = static_cast<Word>(buffer[4]);
  frame.key = buffer.substr(7, key_size);
  frame.value = buffer.substr(7 + key_size, size - 3 - key_size);
  buffer.erase(0, 4 + size);
  return Unpacked::frame;
}

}  // namespace bellows
