# `cmake --install build --prefix P --component engine` installs what a CMake project needs to train
# in a loop of its own: the engine as one archive, its headers, and the package Bellows, which
# examples/CMakeLists.txt uses. Other installs, such as that of a bundle, leave this component out.
if(BELLOWS_SANITIZE)  # its flags would have to be the user's, too
  return()
endif()
set(component COMPONENT engine EXCLUDE_FROM_ALL)

# The archive has neither the program nor its labs. The package links all of it, because the linker
# would drop files that only register themselves.
set(engine_packages OpenMP Eigen3 nlohmann_json fmt CLI11 ZLIB PNG JPEG OpenSSL Gloo)
foreach(library ${BELLOWS_LIBRARIES})
  list(APPEND objects $<TARGET_OBJECTS:${library}>)
endforeach()
set(program "[.]dir/([.]/|Unity/unity_)*(trainer|labs)[/_]")
add_library(engine STATIC "$<FILTER:${objects},EXCLUDE,${program}>")
set_target_properties(engine PROPERTIES OUTPUT_NAME bellows LINKER_LANGUAGE CXX)
install(TARGETS engine ARCHIVE DESTINATION lib ${component})
install(TARGETS bellows_spinning LIBRARY DESTINATION lib ${component})
install(DIRECTORY core autograd data ops optim dist models plan toggles
        DESTINATION include/bellows ${component} FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")

# Libraries of the build tree are installed, too; all others are those of the system.
get_target_property(engine_libraries bellows INTERFACE_LINK_LIBRARIES)
get_target_property(engine_definitions bellows INTERFACE_COMPILE_DEFINITIONS)
list(REMOVE_ITEM engine_libraries bellows_spinning DNNL::dnnl)
if(BELLOWS_ONEDNN)
  install(FILES $<TARGET_SONAME_FILE:DNNL::dnnl> DESTINATION lib ${component})
endif()
if(TARGET bellows_cuda)
  list(APPEND engine_packages CUDAToolkit)
  list(APPEND engine_libraries CUDA::cudart_static)
endif()
include(CMakePackageConfigHelpers)
configure_file(tools/BellowsConfig.cmake.in BellowsConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/BellowsConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/BellowsConfig.cmake
              ${PROJECT_BINARY_DIR}/BellowsConfigVersion.cmake
        DESTINATION lib/cmake/Bellows ${component})
