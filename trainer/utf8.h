// Is it text at all? yaml-cpp would guess at other encodings and take binary bytes as they come.
#pragma once
#include <cstddef>
#include <string_view>

namespace bellows {

// The offset of the first byte that is no UTF-8 text: ill-formed (overlong forms, surrogates and
// code points past 0x10ffff too), or a control character but tab and line ends. npos if all is
// text.
size_t find_non_text(std::string_view bytes);

}  // namespace bellows
