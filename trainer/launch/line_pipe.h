// LinePipe: the output of a child process, line by line.
#pragma once
#include <string>
#include <vector>
#include "core/base/file.h"

namespace bellows {

// Not thread-safe.
class LinePipe {
 public:
  LinePipe();  // throws Error, exit 6, if there are no more descriptors
  int reader() const { return reader_.get(); }  // for poll()
  int writer() const { return writer_.get(); }  // for the child
  bool over() const { return over_; }           // every writer has closed it
  void close_writer();                          // call it once the child has been started

  // Returns the next complete lines, without their newlines. Does not wait. One call takes all that
  // a full pipe holds. An incomplete line is returned at the end of the stream, if `last`, and if
  // it is longer than 1 MiB.
  std::vector<std::string> read_lines(bool last);

 private:
  LinePipe(std::pair<int, int> ends) : reader_(ends.first), writer_(ends.second) {}

  Descriptor reader_, writer_;
  bool over_ = false;
  std::string unread_;
};

}  // namespace bellows
