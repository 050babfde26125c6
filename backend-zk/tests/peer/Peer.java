import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Takes and gives back one of Curator's locks as its input says. Arguments: servers, path of the lock. */
public class Peer {
    public static void main(String[] arguments) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                arguments[0], 10_000, 10_000, new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        InterProcessMutex lock = new InterProcessMutex(client, arguments[1]);
        System.out.println("ready");
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String order = orders.readLine(); order != null; order = orders.readLine()) {
            String[] words = order.split(" ");
            switch (words[0]) {
                case "lock":
                    boolean held = lock.acquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS);
                    System.out.println(held ? "held" : "busy");
                    break;
                case "unlock":
                    lock.release();
                    System.out.println("free");
                    break;
                default:
                    System.out.println("unknown");
            }
        }
        client.close();
    }
}
