#include "data/images/file.h"
#include "core/base/file.h"
#include "core/base/trace.h"

namespace bellows {

std::vector<uint8_t> read_file(const std::string& path) {
  static trace::Counter& opens = trace::counter("data.file_opens");
  opens.add();
  const InputFile file(path, Exit::data);
  if (file.size() > int64_t{UINT32_MAX}) fail(Exit::data, printable(path), ": larger than 4 GiB");
  std::vector<uint8_t> bytes(file.size());
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::string first_file(const std::string& root, std::initializer_list<std::string> paths) {
  for (const std::string& path : paths)
    if (kind_of(root + "/" + path, Exit::data) != Kind::nothing) return root + "/" + path;
  return "";
}

}  // namespace bellows
