/* A program of nothing, to link a room with all that it may use (CMakeLists.txt). */
int main(void) {
    return 0;
}
